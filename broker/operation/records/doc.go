// Package records joins operations to the broker's store and task queue, and makes the start of their
// runs. The main type is Records.
package records
