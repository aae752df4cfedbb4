"""What NCCL and the OFI plugin say in their logs. Standard library only: it is read where it was written."""
