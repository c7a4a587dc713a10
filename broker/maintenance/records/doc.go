// Package records joins maintenance to the store: it opens maintenances, asks tenants to leave, and takes the steps that
// are due by date.
package records
