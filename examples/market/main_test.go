package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/examples/internal/wire"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m).Run() }

// Somebody else buys after the first buyer has looked, and before it acts.
func TestNothingIsSoldTwice(t *testing.T) {
	t.Parallel()
	forms := map[string]func(m Market) func(ctx context.Context, t Trade) error{
		"naive":  func(m Market) func(ctx context.Context, t Trade) error { return m.naiveBuy },
		"WATCH":  func(m Market) func(ctx context.Context, t Trade) error { return m.buyWatching },
		"script": func(m Market) func(ctx context.Context, t Trade) error { return m.Buy },
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, form := range forms {
			var busy wire.Wire
			market := uuid.NewString()
			first, other := NewMarket(server.Client(t, busy.Through), market), NewMarket(server.Client(t), market)
			require.NoError(t, other.Pay(t.Context(), "ann", 100))
			require.NoError(t, other.Pay(t.Context(), "bob", 100))
			require.NoError(t, other.Offer(t.Context(), "sword", "eve", 70))
			words := "multi"
			if name == "script" {
				words = "eval"
			}
			busy.On(words, wire.None, func() {
				assert.NoError(t, form(other)(context.Background(), Trade{"sword", "eve", "bob", 70}))
			})
			err := form(first)(t.Context(), Trade{"sword", "eve", "ann", 70})
			require.Equal(t, 1, busy.Struck(), name)
			funds, fundsErr := other.Funds(t.Context())
			require.NoError(t, fundsErr)
			if name == "naive" {
				assert.NoError(t, err)
				assert.Equal(t, map[string]int64{"ann": 30, "bob": 30, "eve": 140}, funds, "both have paid for the one sword")
			} else {
				assert.Equal(t, ErrNotForSale, err, name)
				assert.Equal(t, map[string]int64{"ann": 100, "bob": 30, "eve": 70}, funds, name)
			}
		}
	})
}

// A buyer spends the same money on two items at once.
func TestNobodyGetsIntoDebt(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, words := range map[string]string{"naive": "multi", "script": "eval"} {
			var busy wire.Wire
			market := uuid.NewString()
			first, other := NewMarket(server.Client(t, busy.Through), market), NewMarket(server.Client(t), market)
			buy, buyOther := first.Buy, other.Buy
			if name == "naive" {
				buy, buyOther = first.naiveBuy, other.naiveBuy
			}
			require.NoError(t, other.Pay(t.Context(), "ann", 100))
			require.NoError(t, other.Offer(t.Context(), "sword", "eve", 70))
			require.NoError(t, other.Offer(t.Context(), "shield", "eve", 70))
			busy.On(words, wire.None, func() {
				assert.NoError(t, buyOther(context.Background(), Trade{"shield", "eve", "ann", 70}))
			})
			err := buy(t.Context(), Trade{"sword", "eve", "ann", 70})
			require.Equal(t, 1, busy.Struck(), name)
			funds, fundsErr := other.Funds(t.Context())
			require.NoError(t, fundsErr)
			if name == "naive" {
				assert.NoError(t, err)
				assert.EqualValues(t, -40, funds["ann"])
			} else {
				assert.Equal(t, ErrNoFunds, err)
				assert.EqualValues(t, 30, funds["ann"])
			}
		}
	})
}

// Money is neither made nor lost, and each item has one owner, in each form that is right.
func TestTradesBalance(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		m := NewMarket(server.Client(t), uuid.NewString())
		for name, buy := range map[string]func(ctx context.Context, t Trade) error{"script": m.Buy, "WATCH": m.buyWatching, "lock": m.buyLocked} {
			rate, err := measure(t.Context(), m, 4, 100*time.Millisecond, buy)
			require.NoError(t, err, name)
			assert.Positive(t, rate, name)
		}
		funds, err := m.Funds(t.Context())
		require.NoError(t, err)
		sum := int64(0)
		for _, amount := range funds {
			sum += amount
		}
		assert.EqualValues(t, 3*4*1_000_000, sum)
	})
}

func TestDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), redistest.Start(t, redistest.Embedded).Client(t), &out))
	assert.Contains(t, out.String(), "ann buys the sword: <nil>\nann buys the shield: the buyer does not have the money\n")
	assert.Regexp(t, `lock: \d+ trades/s, [\d.]+ of the script's`, out.String())
}
