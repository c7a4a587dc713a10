// Package debtest makes Debian packages for tests. Parts makes the members of a valid package from
// its entries, and Join joins members into a package. A test makes an invalid package by changing
// members before Join.
package debtest
