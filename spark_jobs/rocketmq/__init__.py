"""Read from RocketMQ: a client of its remoting protocol, and the Spark data source `rocketmq`, which uses it."""
