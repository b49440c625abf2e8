"""What commands show in a terminal and ask there."""
