"""Messages between hosts, the client with failover and the server wiring, under mutual TLS."""
