package redistest

import (
	"regexp"
	"strconv"
)

// IsCall tells whether a command of this name calls a script or a function.
func IsCall(name string) bool { return name == "eval" || name == "evalsha" || name == "fcall" }

var calls = regexp.MustCompile(`cmdstat_(?:eval|evalsha|fcall):calls=(\d+)`)

// Calls returns how many scripts and functions were called, by what INFO commandstats says.
func Calls(info string) (count int64) {
	for _, match := range calls.FindAllStringSubmatch(info, -1) {
		n, _ := strconv.ParseInt(match[1], 10, 64)
		count += n
	}
	return count
}
