"""Reading RocketMQ: a client of its remoting protocol, and the Spark data source `rocketmq` over it."""
