"""The vocabulary of the cluster: submissions, results, problems, rejudgings, the audit trail. No transport."""
