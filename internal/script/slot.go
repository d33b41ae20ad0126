package script

import "strings"

// HasHashTag reports whether Redis Cluster hashes only a part of the key: what stands between the first { and the first }
// after it, unless that is empty.
func HasHashTag(key string) bool {
	_, rest, _ := strings.Cut(key, "{")
	return strings.Index(rest, "}") > 0
}

// HashTag returns the part of a key that Redis Cluster hashes.
func HashTag(key string) string {
	if !HasHashTag(key) {
		return key
	}
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

// Slot returns the cluster slot of a key: CRC16 (XMODEM) of its hash tag modulo 16384, as the cluster specification defines it.
func Slot(key string) int {
	var crc uint16
	for _, b := range []byte(HashTag(key)) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc & 0x8000
			crc <<= 1
			if carry != 0 {
				crc ^= 0x1021
			}
		}
	}
	return int(crc % 16384)
}
