package main

import "context"

func (c Cap) countKey() string               { return "{" + c.name + "}:count" }
func (c Cap) memberKey(member string) string { return "{" + c.name + "}:member:" + member }

// naiveGrant is Grant in up to three round trips.
func (c Cap) naiveGrant(ctx context.Context, member string) (bool, error) {
	first, err := c.rdb.SetNX(ctx, c.memberKey(member), 1, c.Window).Result()
	if err != nil || !first {
		return false, err
	}
	count, err := c.rdb.Incr(ctx, c.countKey()).Result()
	if err != nil {
		return false, err
	}
	if count == 1 {
		if err := c.rdb.PExpire(ctx, c.countKey(), c.Window).Err(); err != nil {
			return false, err
		}
	}
	return count <= int64(c.Most), nil
}
