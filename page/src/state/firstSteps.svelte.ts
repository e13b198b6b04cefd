const KEY = 'mangrove.firstSteps'

/** The guide of a new service, which the administrators of this device see until it is done or hidden. */
export class FirstSteps {
  isHidden = $state(localStorage.getItem(KEY) !== null)

  hide(): void {
    this.isHidden = true
    localStorage.setItem(KEY, 'hidden')
  }
}
