"""What the next run of a study would do, why, and what it is likely to cost."""
