"""What actually carries out the calls that models make."""
