"""The training itself: the loop on one page, and the parts it is made of. Imports torch."""
