"""Members of classic and consumer groups, by the generations and member epochs that they were given."""
