"""Every Java class that the sandbox's applications meet, so that all can be wrapped before a second thread runs.

JPype 1.7.1 wraps a class when it is first met. Two threads that meet classes for the first time at once
crash it (a segmentation fault in `TypeFactoryNative.newWrapper`), and listeners run in many threads.
"""

from __future__ import annotations

from contextlib import suppress

import jpype

_CLASSES = {
    "java.io": "Closeable Serializable",
    "java.lang": (
        "AutoCloseable Boolean Byte CharSequence Character Character$Subset Character$UnicodeBlock "
        "Character$UnicodeScript Class ClassLoader Cloneable Comparable Double Enum Enum$EnumDesc "
        "Exception Float IllegalStateException Integer Iterable Long Number Object RuntimeException "
        "Short String Throwable"
    ),
    "java.lang.constant": "Constable ConstantDesc DynamicConstantDesc",
    "java.lang.invoke": "TypeDescriptor TypeDescriptor$OfField",
    "java.lang.reflect": (
        "AccessibleObject AnnotatedElement Executable Field GenericDeclaration Member Method Type"
    ),
    "java.net": "URLClassLoader",
    "java.security": "SecureClassLoader",
    "java.util": (
        "AbstractCollection AbstractList AbstractMap AbstractMap$SimpleEntry "
        "AbstractMap$SimpleImmutableEntry AbstractQueue ArrayList Arrays Arrays$ArrayList "
        "Collection Collections$UnmodifiableCollection Collections$UnmodifiableList "
        "Collections$UnmodifiableRandomAccessList Enumeration HashMap HashMap$HashIterator "
        "HashMap$ValueIterator HashMap$Values Iterator List Map Map$Entry Queue RandomAccess Set"
    ),
    "java.util.concurrent": (
        "AbstractExecutorService ArrayBlockingQueue BlockingQueue ConcurrentHashMap "
        "ConcurrentHashMap$BaseIterator ConcurrentHashMap$CollectionView "
        "ConcurrentHashMap$KeyIterator ConcurrentHashMap$KeySetView ConcurrentHashMap$Traverser "
        "ConcurrentMap Executor ExecutorService RejectedExecutionHandler ThreadPoolExecutor "
        "ThreadPoolExecutor$AbortPolicy ThreadPoolExecutor$CallerRunsPolicy "
        "ThreadPoolExecutor$DiscardOldestPolicy ThreadPoolExecutor$DiscardPolicy"
    ),
    "java.util.concurrent.atomic": "AtomicLong",
    "org.apache.rocketmq.client": "AccessChannel ClientConfig MQAdmin",
    "org.apache.rocketmq.client.consumer": (
        "DefaultMQPushConsumer MQConsumer MQPushConsumer MessageSelector"
    ),
    "org.apache.rocketmq.client.consumer.listener": (
        "ConsumeConcurrentlyContext ConsumeConcurrentlyStatus ConsumeOrderlyContext "
        "ConsumeOrderlyStatus MessageListener MessageListenerConcurrently MessageListenerOrderly"
    ),
    "org.apache.rocketmq.client.impl.consumer": (
        "DefaultMQPushConsumerImpl MQConsumerInner RebalanceImpl RebalancePushImpl"
    ),
    "org.apache.rocketmq.client.producer": (
        "DefaultMQProducer LocalTransactionState MQProducer MessageQueueSelector SendCallback "
        "SendResult SendStatus TransactionListener TransactionMQProducer TransactionSendResult"
    ),
    "org.apache.rocketmq.client.producer.selector": "SelectMessageQueueByHash",
    "org.apache.rocketmq.client.trace": "AsyncTraceDispatcher TraceDispatcher TraceDispatcher$Type",
    "org.apache.rocketmq.common": "TopicConfig",
    "org.apache.rocketmq.common.consumer": "ConsumeFromWhere",
    "org.apache.rocketmq.common.message": (
        "Message MessageClientExt MessageClientIDSetter MessageExt MessageQueue"
    ),
    "org.apache.rocketmq.common.protocol.heartbeat": "MessageModel",
    "org.apache.rocketmq.remoting": "RPCHook",
    "org.apache.rocketmq.remoting.protocol": "RemotingSerializable",
    "org.apache.rocketmq.remoting.protocol.admin": "TopicOffset TopicStatsTable",
    "org.apache.rocketmq.remoting.protocol.body": "ClusterInfo",
    "org.apache.rocketmq.remoting.protocol.heartbeat": "MessageModel",
    "org.apache.rocketmq.remoting.protocol.route": "BrokerData",
    "org.apache.rocketmq.tools.admin": "DefaultMQAdminExt MQAdminExt",
}


def wrap_all() -> None:
    """Wrap those that the release has; call it once the JVM runs, before any other thread does."""
    for package, names in _CLASSES.items():
        for name in names.split():
            with suppress(TypeError):  # there is no such class
                jpype.JClass(f"{package}.{name}")
