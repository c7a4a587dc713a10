package api

// AdoptedMachine is one machine, already deployed by MAAS, that an operator names for adoption.
type AdoptedMachine struct {
	SystemID string `json:"system_id" minLength:"1" maxLength:"64" doc:"the machine's system id in MAAS"`
	SKUID    string `json:"sku_id,omitempty" maxLength:"63" doc:"SKU that the machine is compared with; left out: no comparison"`
	Hostname string `json:"hostname,omitempty" maxLength:"253" doc:"hostname that the machine must have in MAAS; left out: any hostname"`
	Place
}

// AdoptionStart asks the broker to bind one deployed machine to a node. Adoption reads from MAAS
// and never changes anything there.
type AdoptionStart struct {
	SiteID    string `json:"site_id" minLength:"1" maxLength:"63" doc:"the site's id or name"`
	ProfileID string `json:"profile_id,omitempty" maxLength:"63" doc:"the profile's id or name; default: the site's default profile"`
	AdoptedMachine
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// AdoptionBatch asks for the adoption of many machines at one site.
type AdoptionBatch struct {
	SiteID    string           `json:"site_id" minLength:"1" maxLength:"63" doc:"the site's id or name"`
	ProfileID string           `json:"profile_id,omitempty" maxLength:"63" doc:"the profile's id or name; default: the site's default profile"`
	SKUID     string           `json:"sku_id,omitempty" maxLength:"63" doc:"SKU for machines that name none"`
	Machines  []AdoptedMachine `json:"machines" minItems:"1" maxItems:"1000"`
	Reason    string           `json:"reason,omitempty" maxLength:"500"`
}
