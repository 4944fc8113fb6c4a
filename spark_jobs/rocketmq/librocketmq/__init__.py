"""Reads a cluster through `librocketmq`, the native library of the package `rocketmq-client-python`."""
