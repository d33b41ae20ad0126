//go:build !unix

package redistest

import "os"

// There are no such signals here, and sending them fails.
var sigstop, sigcont os.Signal
