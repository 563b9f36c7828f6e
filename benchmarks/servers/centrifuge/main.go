// A hub on the centrifuge library, what Centrifugo is made of, with history in Redis streams.
//
//	GET  /connection/websocket       its own protocol: connect, then subscribe to a channel
//	POST /channels/{name}            publish the body, kept in the channel's history
//	GET  /livez
//
// Usage: centrifuge PORT REDIS_URL
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/centrifugal/centrifuge"
)

const (
	historySize = 20000
	historyTTL  = 5 * time.Minute
	redisWait   = 5 * time.Second
)

func mustNot(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func streamsBroker(node *centrifuge.Node, redisURL string) centrifuge.Broker {
	shard, err := centrifuge.NewRedisShard(node, centrifuge.RedisShardConfig{
		Address:        redisURL,
		ConnectTimeout: redisWait,
		ReadTimeout:    redisWait,
		WriteTimeout:   redisWait,
	})
	mustNot(err)
	broker, err := centrifuge.NewRedisBroker(node, centrifuge.RedisBrokerConfig{
		Shards:     []*centrifuge.RedisShard{shard},
		UseStreams: true,
	})
	mustNot(err)
	return broker
}

func newNode(redisURL string) *centrifuge.Node {
	config := centrifuge.DefaultConfig
	config.ClientQueueMaxSize = 64 << 20
	node, err := centrifuge.New(config)
	mustNot(err)
	node.SetBroker(streamsBroker(node, redisURL))
	node.OnConnect(func(client *centrifuge.Client) {
		client.OnSubscribe(func(_ centrifuge.SubscribeEvent, answer centrifuge.SubscribeCallback) {
			options := centrifuge.SubscribeOptions{Recover: true}
			answer(centrifuge.SubscribeReply{Options: options}, nil)
		})
	})
	mustNot(node.Run())
	return node
}

func signedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := &centrifuge.Credentials{UserID: "viewer"}
		next.ServeHTTP(w, r.WithContext(centrifuge.SetCredentials(r.Context(), who)))
	})
}

func publisher(node *centrifuge.Node) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			channel := strings.TrimPrefix(r.URL.Path, "/channels/")
			_, err = node.Publish(channel, body, centrifuge.WithHistory(historySize, historyTTL))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: centrifuge PORT REDIS_URL")
	}
	node := newNode(os.Args[2])
	quiet := centrifuge.WebsocketConfig{PingInterval: 5 * time.Minute, UseWriteBufferPool: true}
	http.Handle("/connection/websocket", signedIn(centrifuge.NewWebsocketHandler(node, quiet)))
	http.HandleFunc("/channels/", publisher(node))
	http.HandleFunc("/livez", func(http.ResponseWriter, *http.Request) {})
	mustNot(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
