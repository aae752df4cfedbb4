"""`python -m seatrial.driver`."""

import sys

from seatrial.driver.main import main

if __name__ == "__main__":
    sys.exit(main())
