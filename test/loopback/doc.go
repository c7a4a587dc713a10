// Package loopback gives addresses to servers that a test stops and starts again. The kernel hands
// these addresses to no other program meanwhile.
package loopback
