"""MongoDB: member daemon, replica-set planner and the connection to the store."""
