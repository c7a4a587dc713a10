package api

import "time"

// Reservation is a number of nodes of a SKU that a project is to have in a period, and that no other
// project is given meanwhile.
type Reservation struct {
	ID        string     `json:"id"`
	ProjectID string     `json:"project_id"`
	Status    string     `json:"status" doc:"planned, in_force, over or ended"`
	SKU       string     `json:"sku"`
	Site      string     `json:"site" doc:"empty: any site; nodes of all sites count together"`
	Nodes     int        `json:"nodes"`
	Held      int        `json:"held" doc:"of these, nodes that allocations of the project hold; 0 unless in_force"`
	From      time.Time  `json:"from"`
	To        time.Time  `json:"to" doc:"the first moment after the period"`
	CreatedAt time.Time  `json:"created_at"`
	EndedAt   *time.Time `json:"ended_at" doc:"when it was ended by hand; null: it was not"`
}

// ReservationList is one page of a project's reservations.
type ReservationList struct {
	Items []Reservation `json:"items"`
	Next  string        `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// PlatformReservation is a reservation as the platform sees it.
type PlatformReservation struct {
	Reservation
	Kept    int `json:"kept" doc:"free nodes that no other project is given; 0 unless in_force"`
	Missing int `json:"missing" doc:"nodes that are neither held nor free; 0 unless in_force"`
}

// PlatformReservationList is one page of the reservations of all projects.
type PlatformReservationList struct {
	Standing
	Items []PlatformReservation `json:"items"`
	Next  string                `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// ReservationCreate reserves nodes for a project.
type ReservationCreate struct {
	Project string    `json:"project" minLength:"1" maxLength:"130" doc:"an id, a name, or ORGANISATION/NAME"`
	SKU     string    `json:"sku" minLength:"1" maxLength:"63"`
	Nodes   int       `json:"nodes" minimum:"1" maximum:"1000000"`
	Site    string    `json:"site,omitempty" maxLength:"63" doc:"default: any site that offers the SKU"`
	From    time.Time `json:"from,omitzero" doc:"default, and if it has passed: now"`
	To      time.Time `json:"to" doc:"the first moment after the period"`
	Reason  string    `json:"reason" maxLength:"500"`
}
