// Package taskqueue is the life of a task at the broker.
package taskqueue
