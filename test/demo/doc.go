// Command demo tells Hostler's main job as one story of under five minutes, on
// this machine, in a QEMU guest: a machine boots with a cloud-config that the
// broker rendered, becomes a node, serves a tenant, and is cleaned for the
// next one. Everything in it is real but the tenant. It leaves nothing behind.
package main
