// The Go client with a diary, for tests/broker_facts/test_causes_of_releases.py: what it sent, and what its listeners were given.
//
// It answers the calls of tests/client_process.py: `["method", {arguments}]` lines with `[result, error]` lines. The first argument
// is the nameserver. The methods are those of tests/broker_facts/diary.py, with the same arguments, as far as the client has them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	timeout = 60 * time.Second
	// The client collects records for 5 ms and sends them without waiting for an answer; a shutdown drops those not sent.
	inFlight = time.Second
)

// consumed is a call of a listener; the listener always returns success.
type consumed struct {
	group, msgID string
}

func (c consumed) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{c.group, c.msgID, true})
}

type commands struct {
	namesrv     primitive.NamesrvAddr
	traceTopic  string
	credentials primitive.Credentials
	running     map[string]rocketmq.PushConsumer
	sender      rocketmq.Producer
	clients     int

	mutex sync.Mutex
	diary []consumed
}

// arguments are those of all methods.
type arguments struct {
	Topic     string
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Group     string
	Traced    *bool
	Tags      *string
	Tag       string
	Level     int
	Pairs     [][]any
	Groups    []string
}

func (c *commands) call(method string, with arguments) (any, error) {
	switch method {
	case "trace_to":
		c.traceTopic = with.Topic
		return nil, nil
	case "log_in":
		c.credentials = primitive.Credentials{AccessKey: with.AccessKey, SecretKey: with.SecretKey}
		return nil, nil
	case "start_group":
		return nil, c.startGroup(with)
	case "write":
		return c.write(with)
	case "wait_until_consumed":
		return nil, c.waitUntilConsumed(with.Pairs)
	case "flush":
		time.Sleep(inFlight)
		return nil, nil
	case "stop_groups":
		return nil, c.stopGroups(with.Groups)
	case "consumed":
		c.mutex.Lock()
		defer c.mutex.Unlock()
		return append([]consumed{}, c.diary...), nil
	}
	return nil, fmt.Errorf("unknown method")
}

// instance names a client; two of a name would share their connections.
func (c *commands) instance() string {
	c.clients++
	return fmt.Sprintf("go-%d-%d", os.Getpid(), c.clients)
}

func (c *commands) trace(group string) *primitive.TraceConfig {
	return &primitive.TraceConfig{
		TraceTopic:   c.traceTopic,
		GroupName:    group,
		Access:       primitive.Local,
		NamesrvAddrs: c.namesrv,
		Credentials:  c.credentials,
	}
}

func (c *commands) startGroup(with arguments) error {
	options := []consumer.Option{
		consumer.WithNameServer(c.namesrv),
		consumer.WithGroupName(with.Group),
		consumer.WithInstance(c.instance()),
		consumer.WithCredentials(c.credentials),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
	if with.Traced == nil || *with.Traced {
		options = append(options, consumer.WithTrace(c.trace(with.Group)))
	}
	started, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
	if with.Tags != nil {
		selector.Expression = *with.Tags
	}
	listener := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		for _, each := range messages {
			c.diary = append(c.diary, consumed{with.Group, each.MsgId})
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := started.Subscribe(with.Topic, selector, listener); err != nil {
		return err
	}
	c.running[with.Group] = started
	return started.Start()
}

// write sends one message with a producer whose trace is on; its message id.
func (c *commands) write(with arguments) ([]string, error) {
	if c.sender == nil {
		sender, err := rocketmq.NewProducer(
			producer.WithNameServer(c.namesrv),
			producer.WithGroupName("go-sender"),
			producer.WithInstanceName(c.instance()),
			producer.WithCredentials(c.credentials),
			producer.WithSendMsgTimeout(timeout/2),
			producer.WithTrace(c.trace("go-sender")),
		)
		if err != nil {
			return nil, err
		}
		if err := sender.Start(); err != nil {
			return nil, err
		}
		c.sender = sender
	}
	message := primitive.NewMessage(with.Topic, []byte("body")).WithTag(with.Tag)
	if with.Level > 0 {
		message.WithDelayTimeLevel(with.Level)
	}
	result, err := c.sender.SendSync(context.Background(), message)
	if err != nil {
		return nil, err
	}
	if result.Status != primitive.SendOK {
		return nil, fmt.Errorf("sent with status %d", result.Status)
	}
	return []string{result.MsgID}, nil
}

// waitUntilConsumed returns when the listeners of each group were given so many messages.
func (c *commands) waitUntilConsumed(pairs [][]any) error {
	until := time.Now().Add(timeout)
	for _, pair := range pairs {
		group, count := pair[0].(string), int(pair[1].(float64))
		for seen := c.seen(group); seen < count; seen = c.seen(group) {
			if time.Now().After(until) {
				return fmt.Errorf("%s was given %d of %d", group, seen, count)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

func (c *commands) seen(group string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	count := 0
	for _, each := range c.diary {
		if each.group == group {
			count++
		}
	}
	return count
}

// stopGroups shuts their consumers down when their trace is written; they commit their offsets.
func (c *commands) stopGroups(groups []string) error {
	time.Sleep(inFlight)
	for _, group := range groups {
		if err := c.running[group].Shutdown(); err != nil {
			return err
		}
		delete(c.running, group)
	}
	return nil
}

func main() {
	rlog.SetLogLevel("warn")
	c := &commands{namesrv: primitive.NamesrvAddr{os.Args[1]}, running: map[string]rocketmq.PushConsumer{}}
	answers := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var method string
		var with arguments
		call := []any{&method, &with}
		err := json.Unmarshal(lines.Bytes(), &call)
		var result any
		if err == nil {
			result, err = c.call(method, with)
		}
		var problem any
		if err != nil {
			result, problem = nil, err.Error()
		}
		if err := answers.Encode([]any{result, problem}); err != nil {
			return // nobody reads it any more
		}
	}
}
