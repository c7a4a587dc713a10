// Package downloadtest has a source of one file with faults, for tests of what downloads.
package downloadtest
