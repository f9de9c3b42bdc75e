"""Results of the analysis: findings, sessions, deliveries, statistics, and how much was judged."""
