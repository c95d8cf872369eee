"""The command line for contestants, without dependencies: it talks only to the gateway's HTTP API."""

VERSION = "1.0.0"
