-- What a script finds in Redis.
std = 'lua51'
read_globals = { 'redis' }
globals = { 'KEYS', 'ARGV' }

max_line_length = 128
