"""What only the leading judicator does."""
