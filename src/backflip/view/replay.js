// The player: reads the scene of this page, builds it with three.js, and moves it through time.
"use strict";

const data = JSON.parse(document.getElementById("scene").textContent);
const by_id = (id) => document.getElementById(id);
const unpack = (text) =>
  new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

const times = unpack(data.times); // (T,) [s]
const p_WB = unpack(data.p_WB); // (n, T, 3) [m]
const q_WB = unpack(data.q_WB); // (n, T, 4), x y z w
const T = times.length;
const duration = times[T - 1];
const centre = new THREE.Vector3(...data.centre);
const radius = data.radius;
const SKY = "#eef2f6";

// ---- stage: renderer, light, camera ------------------------------------------------------------

THREE.ColorManagement.legacyMode = false; // hex colours are sRGB, light adds up linearly
const renderer = new THREE.WebGLRenderer({ antialias: true });
renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
renderer.outputEncoding = THREE.sRGBEncoding;
renderer.shadowMap.enabled = true;
renderer.shadowMap.type = THREE.PCFSoftShadowMap;
document.body.prepend(renderer.domElement);

const stage = new THREE.Scene();
stage.background = new THREE.Color(SKY);
stage.fog = new THREE.Fog(SKY, 9 * radius, 30 * radius);

const sun = new THREE.DirectionalLight("#ffffff", 0.85);
const sun_offset = new THREE.Vector3(1.4, -1.0, 2.4).multiplyScalar(radius);
sun.castShadow = true;
sun.shadow.mapSize.set(2048, 2048);
sun.shadow.radius = 4;
sun.shadow.normalBias = 0.004 * radius;
Object.assign(sun.shadow.camera, {
  left: -1.6 * radius, right: 1.6 * radius, top: 1.6 * radius, bottom: -1.6 * radius,
  near: 0.1 * radius, far: 8 * radius,
});
sun.position.copy(centre).add(sun_offset);
sun.target.position.copy(centre);
stage.add(sun, sun.target, new THREE.HemisphereLight("#ffffff", "#a9b4c0", 0.6));

const camera = new THREE.PerspectiveCamera(40, 1, 0.02 * radius, 80 * radius);
const controls = new THREE.TrackballControls(camera, renderer.domElement);
Object.assign(controls, { rotateSpeed: 2.2, zoomSpeed: 1.2, panSpeed: 0.5, dynamicDampingFactor: 0.25 });
Object.assign(controls, { minDistance: 0.1 * radius, maxDistance: 20 * radius });

function go_home() {
  // far enough for the ball around the motion to fit the narrower side of the window
  const half = (camera.fov * Math.PI) / 360;
  const narrow = Math.atan(Math.tan(half) * Math.min(1, camera.aspect));
  const distance = (0.85 * radius) / Math.sin(narrow); // a ball is roomier than what is in it
  controls.target.copy(centre);
  camera.position.set(0.5, -1, 0.42).setLength(distance).add(centre);
  keep_upright();
}

// the trackball rolls freely; z stays up and the camera off the poles
function keep_upright() {
  const eye = camera.position.clone().sub(controls.target);
  const ball = new THREE.Spherical().setFromVector3(new THREE.Vector3(eye.y, eye.z, eye.x));
  ball.phi = Math.min(Math.max(ball.phi, 0.05), 0.94 * Math.PI);
  const kept = new THREE.Vector3().setFromSpherical(ball);
  camera.up.set(0, 0, 1);
  camera.position.set(kept.z, kept.x, kept.y).add(controls.target);
  camera.lookAt(controls.target);
}

// ---- actors: parts on bodies, paths, ground ----------------------------------------------------

function solid(kind, [a, b, c]) {
  if (kind === "sphere") return new THREE.SphereGeometry(a, 48, 32);
  if (kind === "box") return new THREE.BoxGeometry(a, b, c);
  return new THREE.CapsuleGeometry(a, b, 16, 40).rotateX(Math.PI / 2); // three.js has it along y
}

// two-tone, so that a turning ball is seen to turn
function skin(kind, colour) {
  if (kind !== "sphere") return { color: colour };
  const canvas = Object.assign(document.createElement("canvas"), { width: 256, height: 128 });
  const pen = canvas.getContext("2d");
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 256, 128);
  pen.fillStyle = "rgb(255 255 255 / 30%)";
  for (let i = 0; i < 4; i++) for (let j = 0; j < 2; j++) pen.fillRect(64 * i + 32 * j, 64 * j, 32, 64);
  return { map: Object.assign(new THREE.CanvasTexture(canvas), { encoding: THREE.sRGBEncoding }) };
}

function add_part(part, parent) {
  const material = new THREE.MeshStandardMaterial({ roughness: 0.55, metalness: 0.05, ...skin(part.kind, part.colour) });
  const mesh = new THREE.Mesh(solid(part.kind, part.size), material);
  mesh.castShadow = mesh.receiveShadow = true;
  mesh.position.fromArray(part.p_BS);
  mesh.quaternion.fromArray(part.q_BS);
  parent.add(mesh);
}

// a round length near a quarter of the picture: 1, 2 or 5 times a power of ten [m]
function tile_length() {
  const goal = radius / 3;
  const power = 10 ** Math.floor(Math.log10(goal));
  return power * [1, 2, 5].filter((k) => k * power <= goal).pop();
}

function add_plane(part, parent) {
  const tile = tile_length();
  const count = 2 * Math.ceil((30 * radius) / tile);
  const canvas = Object.assign(document.createElement("canvas"), { width: 128, height: 128 });
  const pen = canvas.getContext("2d");
  pen.fillStyle = part.colour;
  pen.fillRect(0, 0, 128, 128);
  pen.fillStyle = "rgb(255 255 255 / 45%)";
  pen.fillRect(0, 0, 64, 64);
  pen.fillRect(64, 64, 64, 64);
  const map = new THREE.CanvasTexture(canvas);
  map.wrapS = map.wrapT = THREE.RepeatWrapping;
  map.repeat.set(count, count);
  map.anisotropy = renderer.capabilities.getMaxAnisotropy();
  map.encoding = THREE.sRGBEncoding;
  const material = new THREE.MeshStandardMaterial({ map, roughness: 1 });
  const mesh = new THREE.Mesh(new THREE.PlaneGeometry(2 * tile * count, 2 * tile * count), material);
  mesh.receiveShadow = true;
  mesh.quaternion.fromArray(part.q_BS);
  // the square lies under the motion, moved by whole tiles so that lines still mark the origin
  const p_BS = new THREE.Vector3().fromArray(part.p_BS);
  const under = centre.clone().sub(p_BS).applyQuaternion(mesh.quaternion.clone().invert());
  under.set(2 * tile * Math.round(under.x / (2 * tile)), 2 * tile * Math.round(under.y / (2 * tile)), 0);
  mesh.position.copy(under.applyQuaternion(mesh.quaternion)).add(p_BS);
  parent.add(mesh);
}

const paths = new THREE.Group();
const bodies = [];
const clip_tracks = [];
for (let b = 0; b < data.bodies; b++) {
  const p = p_WB.subarray(3 * T * b, 3 * T * (b + 1));
  const q = q_WB.subarray(4 * T * b, 4 * T * (b + 1));
  const body = new THREE.Group();
  body.name = `body${b}`;
  body.position.fromArray(p);
  body.quaternion.fromArray(q);
  bodies.push(body);
  clip_tracks.push(new THREE.VectorKeyframeTrack(`${body.name}.position`, times, p));
  clip_tracks.push(new THREE.QuaternionKeyframeTrack(`${body.name}.quaternion`, times, q));
  const line = new THREE.BufferGeometry().setAttribute("position", new THREE.BufferAttribute(p, 3));
  const ink = new THREE.LineBasicMaterial({ color: data.colours[b], transparent: true, opacity: 0.65 });
  paths.add(new THREE.Line(line, ink));
}
const troupe = new THREE.Group();
troupe.add(...bodies);
stage.add(troupe, paths);
for (const part of data.parts) {
  const parent = part.body < 0 ? stage : bodies[part.body];
  (part.kind === "plane" ? add_plane : add_part)(part, parent);
}

// ---- time: three.js interpolates between pictures ----------------------------------------------

const mixer = new THREE.AnimationMixer(troupe);
const action = mixer.clipAction(new THREE.AnimationClip("replay", duration, clip_tracks));
action.setLoop(THREE.LoopOnce);
action.clampWhenFinished = true;
action.play();

let now = 0; // [s] in the replay
let playing = duration > 0;
let seen = performance.now(); // [ms] wall clock of the last picture
const followed = new THREE.Vector3();

function middle_of_bodies() {
  const sum = new THREE.Vector3();
  for (const body of bodies) sum.add(body.position);
  return sum.divideScalar(Math.max(bodies.length, 1));
}

function show(time) {
  now = Math.min(Math.max(time, 0), duration);
  action.paused = false;
  mixer.setTime(now);
  by_id("time").value = now;
  by_id("clock").textContent = `${now.toFixed(2)} / ${duration.toFixed(2)} s`;
}

function set_playing(value) {
  if (value && now >= duration) now = 0;
  playing = value && duration > 0;
  by_id("play").textContent = playing ? "❚❚" : "▶";
}

function follow() {
  const middle = middle_of_bodies();
  if (by_id("follow").checked) {
    const moved = middle.clone().sub(followed);
    for (const point of [controls.target, camera.position, sun.position, sun.target.position]) point.add(moved);
  }
  followed.copy(middle);
}

function draw(wall) {
  const passed = Math.max(wall - seen, 0) / 1000;
  seen = wall;
  if (playing) {
    show(now + passed * Number(by_id("speed").value));
    if (now >= duration) set_playing(false);
  }
  follow();
  controls.update();
  keep_upright();
  renderer.render(stage, camera);
  requestAnimationFrame(draw);
}

// ---- hands -------------------------------------------------------------------------------------

function resize() {
  camera.aspect = window.innerWidth / window.innerHeight;
  camera.updateProjectionMatrix();
  renderer.setSize(window.innerWidth, window.innerHeight);
  controls.handleResize();
}

function step_pictures(count) {
  set_playing(false);
  let i = times.findIndex((t) => t >= now - 1e-6);
  show(times[Math.min(Math.max(i + count, 0), T - 1)]);
}

by_id("time").max = duration;
by_id("time").addEventListener("input", (event) => { set_playing(false); show(Number(event.target.value)); });
by_id("play").addEventListener("click", () => set_playing(!playing));
by_id("trace").addEventListener("change", (event) => { paths.visible = event.target.checked; });
by_id("home").addEventListener("click", () => { by_id("follow").checked = false; go_home(); });
window.addEventListener("resize", resize);
window.addEventListener("keydown", (event) => {
  if (event.target.tagName === "SELECT") return;
  const hands = { " ": () => set_playing(!playing), ArrowLeft: () => step_pictures(-1), ArrowRight: () => step_pictures(1) };
  if (hands[event.key]) { event.preventDefault(); hands[event.key](); }
});

const shown = data.parts.some((part) => part.kind === "plane") ? ` · tiles of ${+tile_length().toPrecision(3)} m` : "";
by_id("facts").textContent = `${data.bodies} ${data.bodies === 1 ? "body" : "bodies"} · ${duration.toFixed(2)} s${shown}`;
resize();
go_home();
set_playing(playing);
show(0);
requestAnimationFrame(draw);
