"""The command line for contestants, without dependencies: it talks only to the gateway's HTTP API."""

VERSION = "0.1.0"
