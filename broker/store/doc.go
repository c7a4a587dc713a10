// Package store is SQL and nothing but SQL.
package store
