// Package planned tests that broker and agent agree on plans: what the broker makes of each definition
// that ships, an agent with code for all kinds takes. No part of a program may import both sides.
package planned
