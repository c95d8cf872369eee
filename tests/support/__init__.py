"""Real servers for tests: etcd and mongod on free loopback ports, stopped by their own process id."""
