"""Two captures compared: `kshark diff`."""
