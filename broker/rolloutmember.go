package broker

import "encoding/json"

// RolloutMember is a member of a rollout as the store keeps it.
type RolloutMember struct {
	Place  int             // among the members, from 0
	Member json.RawMessage // package rollout knows what is in it
}

// SaveMembers is what a step of a rollout makes of its members: those that have moved on.
type SaveMembers []RolloutMember
