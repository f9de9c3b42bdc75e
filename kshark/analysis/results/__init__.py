"""What comes out: findings, sessions, deliveries, statistics and what was judged."""
