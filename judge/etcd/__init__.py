"""etcd: client facade, member daemon, membership planner, election and service registry."""
