"""Groups as their messages show them."""
