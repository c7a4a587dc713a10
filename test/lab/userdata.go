package lab

import "regexp"

var enrollToken = regexp.MustCompile(`hsn_[A-Za-z0-9_-]{43}`)

// EnrollToken finds the enrol token in a machine's user-data, of which every part is
// plain text; empty: there is none.
func EnrollToken(userData []byte) string { return string(enrollToken.Find(userData)) }
