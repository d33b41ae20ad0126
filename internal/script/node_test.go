package script

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

// Retries tells what go-redis does with a pipeline, which is not what it does with a command for every client.
func TestRetries(t *testing.T) {
	single := func(retries int) redis.UniversalClient { return redis.NewClient(&redis.Options{MaxRetries: retries}) }
	cluster := func(redirects int) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRedirects: redirects, MaxRetries: 3})
	}
	var noClient *redis.Client
	for name, tt := range map[string]struct {
		rdb  redis.UniversalClient
		want bool
	}{
		"client":               {single(0), true},
		"without retries":      {single(-1), false},
		"cluster":              {cluster(0), true},
		"without redirects":    {cluster(-1), false},
		"ring":                 {redis.NewRing(&redis.RingOptions{MaxRetries: 3}), false},
		"no client":            {nil, false},
		"a client that is nil": {noClient, false},
	} {
		assert.Equal(t, tt.want, Retries(tt.rdb), name)
	}
}
