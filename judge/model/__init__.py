"""What the cluster speaks of: submissions, results, problems, rejudgings, the audit trail. No transport."""
