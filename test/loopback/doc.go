// Package loopback gives addresses to servers that a test stops and starts again: none that
// the kernel hands to another program meanwhile.
package loopback
