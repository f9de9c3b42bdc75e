"""Administrative operations on share groups: chains of exchanges from a client to share coordinators."""
