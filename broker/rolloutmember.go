package broker

import "encoding/json"

// RolloutMember is a member of a rollout as the store keeps it.
type RolloutMember struct {
	Place  int             // among the members, from 0
	Member json.RawMessage // package rollout defines the content
}

// SaveMembers is the result of one step of a rollout: the members that have moved on.
type SaveMembers []RolloutMember
