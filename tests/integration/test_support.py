def test_servers(etcd_endpoint, mongod_address):
    assert etcd_endpoint and mongod_address
