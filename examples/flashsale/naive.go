package main

import "context"

// naiveBuy is Buy in three round trips, onto a plain list.
func (s *Sale) naiveBuy(ctx context.Context, user string) (waiting int64, err error) {
	added, err := s.rdb.SAdd(ctx, s.buyers, user).Result()
	if err != nil {
		return 0, err
	}
	if added == 0 {
		return 0, ErrBought
	}
	left, err := s.rdb.Decr(ctx, s.stock).Result()
	if err != nil {
		return 0, err
	}
	if left < 0 {
		s.rdb.Incr(ctx, s.stock)
		s.rdb.SRem(ctx, s.buyers, user)
		return 0, ErrSoldOut
	}
	return s.rdb.RPush(ctx, s.Orders.Name(), user).Result()
}
