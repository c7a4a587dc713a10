// Package debtest makes Debian packages for tests: good ones, from what they shall put
// on a machine, and bad ones, from parts that the caller spoils.
package debtest
