// Package audit seals the audit log and verifies it.
package audit
