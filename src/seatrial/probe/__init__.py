"""What a host says about itself and about the processes on it. No torch, no Ray here."""
